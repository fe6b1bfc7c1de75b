"""What a competition is: values and pure functions. No I/O, no clock, no chance."""
