// Package result is the data of a benchmark: results.json, how runs become numbers, and how numbers compare.
//
// A [Report] has scenarios, which are loads; a [Scenario] has a [Run] for each repetition with each system, and a
// [Summary] for each system over its usable runs. A run has four sorts of values, all by name:
//
//   - metrics, one number each;
//   - distributions: the values of every frame; some quantiles are metrics too ([AddQuantiles]);
//   - breakdowns: a quantity by its parts;
//   - series: a quantity over time.
//
// A metric of a summary is a [Statistic]: the median of the runs, with the lowest and the highest. Two statistics
// differ only if these ranges do not overlap. [Report.Standing] compares the systems of a report by this rule.
//
// The package imports nothing else of this module, so that a reader of results needs only this package.
package result
