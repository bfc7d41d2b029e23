"""Carrel's mark: a reading desk between its two walls, with a book on it; drawn in a colour that both themes bear."""

MARK = """<svg xmlns="http://www.w3.org/2000/svg" width="132" height="32" viewBox="0 0 132 32"
  role="img" aria-label="Carrel">
<g fill="none" stroke="#2f8594" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round">
<path d="M4 28V6a2 2 0 0 1 2-2h4M28 28V6a2 2 0 0 0-2-2h-4M4 21h24"/>
<path d="M16 9.5c-1.8-1.5-4-1.7-6-1.5v9c2-.2 4.2 0 6 1.5 1.8-1.5 4-1.7 6-1.5v-9c-2-.2-4.2 0-6 1.5zm0 0v9"/>
</g>
<g fill="#2f8594" font-family="Source Sans, system-ui, sans-serif" font-size="21" font-weight="600">
<text x="40" y="23">Carrel</text>
</g>
</svg>"""
