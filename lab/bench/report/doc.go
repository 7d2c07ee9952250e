// Package report turns results into tables.md and plots.
//
// [Write] makes charts and tables of a [result.Report], for each kind of scenarios in turn. The data decides which
// ones: each distribution becomes a CDF and a table of its quantiles, each breakdown a table, each series
// a chart over time, and each metric bars or lines over the number of subscribers. So a new metric needs no change
// here.
//
// A figure is charts that differ only in the metric or the scenario; tables.md shows the first. Names and commands come
// from results files, which may come from anywhere, and are text.
package report
