"""The organizers' attacks of the warm-up (rule B2): generators over arrays, without I/O, threads, clock or own chance.

An attack on one picture is a generator. It yields pictures to ask the defence about, is sent the scores, and returns
the picture that is judged. Its random numbers come from the generator that it is given, one for each picture, so what
becomes of a picture does not depend on which others are attacked at the same time.
"""
