"""The chart, rendered and linted by Helm's own engine, and the schemas that its objects must satisfy."""
