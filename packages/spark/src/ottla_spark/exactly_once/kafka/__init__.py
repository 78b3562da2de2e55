"""The cluster that the driver decides with, over the network."""
