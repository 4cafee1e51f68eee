"""Types: of elements, of what a body declares and asks for, and how values from outside become them."""
