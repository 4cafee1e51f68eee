"""Models as pictures: records of what is drawn, made of a model, and written as Graphviz's text or as Mermaid's."""
