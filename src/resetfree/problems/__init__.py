"""What is learned on: the contract of a problem, finite models, Gymnasium environments, features, operators."""
