// The assignment of rows to columns with the least sum of costs.
#pragma once

#include <cstdint>
#include <vector>

namespace visops {

// Finds which columns rows of costs [rows, columns] get, each at most one, so that as many as
// possible are assigned and the sum is the least. No cost may be NaN or -inf; inf forbids a pair.
// Pairs come by rising row. False: there is no assignment without a forbidden pair.
//
// Source: D. F. Crouse, "On implementing 2D rectangular assignment algorithms", IEEE Transactions
// on Aerospace and Electronic Systems, 2016: shortest augmenting paths with dual variables. Where
// several assignments have the least sum, it is SciPy's: columns are looked at from the last one,
// one that is chosen gives its place to the last that is left, and of equally short paths one that
// ends at a free column wins.
bool solve_assignment(const double* costs, int64_t rows, int64_t columns,
                      std::vector<int64_t>* row_of_pair, std::vector<int64_t>* column_of_pair);

}  // namespace visops
