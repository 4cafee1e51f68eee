"""How mdf_loop joins other libraries."""
