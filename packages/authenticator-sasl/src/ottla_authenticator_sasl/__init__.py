"""Ottla's SASL mechanisms: PLAIN, SCRAM, OAUTHBEARER and GSSAPI."""

__version__ = "0.1.0"
