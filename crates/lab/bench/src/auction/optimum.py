"""Reads markets from standard input and writes the most that can be saved in each."""

import json
import sys

import highspy


def most(market):
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    places = [solver.addVariable(lb=0, ub=1) for _ in market["bids"]]
    if not places:
        return 0
    by_lot = [[] for _ in range(market["lots"])]
    by_bidder = [[] for _ in market["free"]]
    for place, (lot, bidder, _) in zip(places, market["bids"]):
        by_lot[lot].append(place)
        by_bidder[bidder].append(place)
    for same in filter(None, by_lot):
        solver.addConstr(sum(same) <= 1)
    for free, same in zip(market["free"], by_bidder):
        if same:
            solver.addConstr(sum(same) <= free)
    # The corners of such a problem are whole, so nothing has to be rounded.
    solver.maximize(sum(saves * place for place, (_, _, saves) in zip(places, market["bids"])))
    return solver.getObjectiveValue()


json.dump([most(market) for market in json.load(sys.stdin)], sys.stdout)
