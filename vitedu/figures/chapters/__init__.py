"""The drawings of the book, one module a chapter, named as its file is.

Every function returns a figure and its alt text:
`figures.show(*vitedu.figures.chapters.attention.layer())`.
"""
