"""What every implementation of the cluster port must do: the same tests for each."""
