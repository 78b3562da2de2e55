"""`ottla perf`: how fast a producer with these settings sends to these brokers, and how long a record takes."""
