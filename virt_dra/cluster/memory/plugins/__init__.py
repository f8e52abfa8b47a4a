"""The admission plugins that an API server has by default, as far as final states show them: one module each.

A mutating plugin returns the object that is to be judged and stored; a validating one raises the refusal, or returns
other objects that must be stored with it (the quotas that are charged).
"""
