// Package chart holds the content of a plot, and draws it as SVG.
//
// A [Chart] is data: a form, two axes and traces. Package report makes charts from results; [Draw] draws one by the
// rules of its [Form]. A system has the same colour and dashes in all charts.
package chart
