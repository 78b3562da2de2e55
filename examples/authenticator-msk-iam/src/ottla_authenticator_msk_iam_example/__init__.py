"""The mechanism for `sasl.mechanism=AWS_MSK_IAM`: logins at Amazon MSK with AWS credentials."""

from ottla_authenticator_msk_iam_example.plugin import MskIamMechanism
from ottla_authenticator_msk_iam_example.signature import Credentials

__all__ = ["Credentials", "MskIamMechanism"]
__version__ = "0.1.0"
