// Package outbox sends values to an HTTP service of the operator, such as events or alerts.
//
// A [Box] has a queue, and one goroutine that takes values from it in their order and sends them, several in a request.
// If that fails it tries again, with longer and longer pauses, until the service has confirmed them by a status of 2xx:
// so the service may get a value twice. A value is lost only when the queue is full, when the service refuses it, after
// maxAge, or when the process ends; each loss is counted by its reason. Adding a value does not wait, unless Config
// says so.
package outbox
