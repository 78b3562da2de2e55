"""The network implementation of the cluster interface that the driver's decisions use."""
