"""Figures as data: panels, curves and tables, drawn to files by matplotlib and on the page by Plotly."""
