"""Java, the jars of Kafka and Spark, and the commands that run them."""
