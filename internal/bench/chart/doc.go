// Package chart holds the content of a plot, and draws it as SVG or PNG.
//
// A [Chart] is data: a form, two axes and traces. Package report makes charts from results; [Draw] draws one by the
// rules of its [Form], and the script of the report's page draws the same data by the same rules, so a rule that
// changes here changes in page.js too. A system has the same colour and dashes in all charts ([Colours]).
package chart
