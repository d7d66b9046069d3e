"""What users write: the document as frozen structs, the table of options, and the loader that merges and checks them."""
