"""What users write: the document as frozen structs, the table of options, the loader that merges and checks."""
