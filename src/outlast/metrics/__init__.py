"""The numbers of stores and queues for Prometheus, with the alerts and the dashboard over them."""
