"""The documentation site: the pages of the repository and a reference from docstrings, as one folder of HTML.

``python -m tests.site OUT`` builds it with zensical, ``--with material`` with mkdocs-material, both strictly (extra
``docs``). The pages stay where readers of the repository find them. ``pages`` says which page stands where, ``build``
copies them with their links rewritten, ``names`` teaches the reference what our docstrings mean, ``mkdocs.yml`` is the
configuration that both tools read. ``picture`` makes the moving pictures, and ``python -m tests.bench --html`` made
figures.html.

Not here: how a built site is served. It is a folder of files, and fetches nothing from elsewhere when it is viewed.
"""
