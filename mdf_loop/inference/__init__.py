"""From a model to its parameters: simulators for libraries of inference, and a fit."""
