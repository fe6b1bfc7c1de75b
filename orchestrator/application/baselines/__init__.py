"""Trains classifiers for the organizers' baselines, and builds the shipped images."""
