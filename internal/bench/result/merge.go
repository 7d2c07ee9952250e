package result

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Merge joins reports of one program on one machine. The last of several scenarios with the same name is kept.
func Merge(reports ...Report) (Report, error) {
	if len(reports) == 0 {
		return Report{}, errors.New("no reports to merge")
	}
	out := reports[0]
	out.Metrics = maps.Clone(out.Metrics)
	out.Systems, out.Scenarios = slices.Clone(out.Systems), slices.Clone(out.Scenarios)
	steal := out.Machine.Steal * out.Duration
	for _, r := range reports[1:] {
		if r.Commit != out.Commit || r.Machine.String() != out.Machine.String() {
			return Report{}, fmt.Errorf("reports of different programs or machines: commit %s on %s; commit %s on %s",
				out.Commit, out.Machine, r.Commit, r.Machine)
		}
		out.Duration += r.Duration
		steal += r.Machine.Steal * r.Duration
		out.Machine.Load = max(out.Machine.Load, r.Machine.Load)
		out.Command = slices.Concat(out.Command, []string{";"}, r.Command)
		if out.Metrics == nil {
			out.Metrics = map[string]Metric{}
		}
		maps.Copy(out.Metrics, r.Metrics)
		if err := out.addSystems(r.Systems); err != nil {
			return Report{}, err
		}
		out.addScenarios(r.Scenarios)
	}
	if out.Duration > 0 {
		out.Machine.Steal = steal / out.Duration
	}
	return out, nil
}

func (r *Report) addSystems(systems []System) error {
	for _, s := range systems {
		i := slices.IndexFunc(r.Systems, func(o System) bool { return o.Name == s.Name })
		switch {
		case i < 0:
			r.Systems = append(r.Systems, s)
		case r.Systems[i].Command != s.Command:
			return fmt.Errorf("reports have different commands for the system %s: %q; %q",
				s.Name, r.Systems[i].Command, s.Command)
		case r.Systems[i].Version == "":
			r.Systems[i].Version = s.Version
		}
	}
	return nil
}

// addScenarios adds scenarios, each behind the others of its kind.
func (r *Report) addScenarios(scenarios []Scenario) {
	for _, s := range scenarios {
		r.Scenarios = slices.DeleteFunc(r.Scenarios, func(o Scenario) bool { return o.Name == s.Name })
		at := len(r.Scenarios)
		for i, o := range r.Scenarios {
			if o.Kind == s.Kind {
				at = i + 1
			}
		}
		r.Scenarios = slices.Insert(r.Scenarios, at, s)
	}
}
