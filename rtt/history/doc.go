// Package history keeps aggregates on disk, in Parquet files.
//
// A [Writer] collects the prefixes of intervals and writes a file every few minutes: first under another name, so that
// a file is whole or not there. It keeps [Limits]: files that are too old, or that take too much, are removed, the
// oldest first. [Read] reads rows back.
//
// DuckDB, pandas and Spark read Parquet as it is. It compresses a column at a time, and a written file never changes: a
// crash loses the last minutes and damages nothing. An embedded database would need a program of its own for queries,
// and time-series stores keep numbers, not histograms.
package history
