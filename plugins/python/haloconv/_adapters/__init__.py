"""What patch() puts into other projects: a module for each, named as the project.

DISTRIBUTION   its name on PyPI
VERSIONS       (first, end): the first version that was tested, and the first that was not
replacements() {"module:attribute": function}; an attribute may be "Class.method". It may import the project
"""
