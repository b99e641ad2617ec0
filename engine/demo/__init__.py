"""A real data set and a local API that serves it, to see a run killed and resumed without any account or network.

`quakes.jsonl.gz` holds the 1,707 earthquakes, quarry blasts and explosions that the seismic networks of the U.S.
Geological Survey and its partners reported from 31 January to 7 February 2018, as the Survey's feed "All Earthquakes,
Past Week" gave them. Works of the U.S. Geological Survey are in the public domain in the United States; the Survey
asks to be credited. `PROVENANCE.md` beside it tells how the file was cut.
"""
