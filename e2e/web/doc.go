// Package web tests the web page in Chromium: it watches, publishes, and looks at the pictures.
//
// With SLUICE_SCREENSHOTS the tests put screenshots into that folder.
package web
