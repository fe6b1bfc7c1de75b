"""The organizers' attacks of the warm-up (rule B2): generators over arrays, without I/O, threads or a clock.

An attack on one picture is a generator. It yields pictures to ask the defence about, receives their scores, and returns
the picture that is judged. Each picture has its own source of random numbers, so the result for a picture does not
depend on which others are attacked at the same time.
"""
