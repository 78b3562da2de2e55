"""An example of a SASL mechanism for Ottla: AWS_MSK_IAM."""

__version__ = "0.1.0"
