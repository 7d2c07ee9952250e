// Package web tests the web page in Chromium and in Firefox: it watches, publishes, and looks at the pictures.
//
// SLUICE_SCREENSHOTS names a folder in which the tests keep screenshots.
package web
