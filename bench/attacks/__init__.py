"""What hostile and careless peers do to a broker, and what others notice of it.

`attack.py` says what an attack is, and the modules named after a theme have them. `canary.py` and
`watch.py` measure, `trial.py` makes one attack, `results.py` judges and prints.
`bench/hostile.py` is the command.
"""
