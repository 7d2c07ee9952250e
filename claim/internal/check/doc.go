// Package check explores models completely: all states that a model can reach, by every order of its steps.
//
// A [Model] is a state that can be compared, and rules that say which states may follow. [Model.Check] finds the
// shortest way to a state that breaks an invariant. If there is none, it looks for ways to stay for ever where
// something is owed, although every fair rule that stays possible is followed at last: these are components of the
// graph of states (liveness under weak fairness). A state from which no rule leads on is such a component, too.
package check
