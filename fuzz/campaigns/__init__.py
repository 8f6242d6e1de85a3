"""Campaigns: generated inputs by the million, each checked and each found again by its number.

``python -m fuzz.campaigns solvers`` and ``... estimators`` count up to a target in a JSON file and
go on from there when stopped. A case is known by its kind and number alone:
``--replay kind:number`` runs it again and says what it found.
"""
