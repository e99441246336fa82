"""Problems to learn on: their contract, finite models, Gymnasium environments, features, operators."""
