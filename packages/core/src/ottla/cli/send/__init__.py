"""`ottla send`: records from the standard input and from files. It needs pyarrow: the extra `ottla[arrow]`."""
