"""The plan of a loop: what is known of its body, and what therefore runs once, for many iterations at once, or one by one.

Everything here looks at records and changes nothing.
"""
