package cmd

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/kalpahost/kalpa/internal/config"
)

// settingFlag is the flag of a setting. It takes any text: config checks all of
// them together, so that a person sees every problem at once.
type settingFlag struct {
	setting *config.Setting
	given   []string
}

func (f *settingFlag) String() string {
	if len(f.given) > 0 {
		return strings.Join(f.given, ",")
	}
	return f.setting.Format(f.setting.Default)
}

func (f *settingFlag) Set(raw string) error {
	if f.setting.Kind == config.List {
		f.given = append(f.given, raw)
	} else {
		f.given = []string{raw}
	}
	return nil
}

// Type is what help shows for the value.
func (f *settingFlag) Type() string {
	if f.setting.Kind == config.Bool {
		return "bool" // pflag shows no value for it
	}
	return f.setting.Value
}

// settingFlags are the flags of all settings.
type settingFlags []*settingFlag

func newSettingFlags(set *pflag.FlagSet) settingFlags {
	var flags settingFlags
	for i := range config.Settings {
		s := &config.Settings[i]
		if s.Flag == "" {
			continue
		}
		f := &settingFlag{setting: s}
		added := set.VarPF(f, s.Flag, "", strings.ReplaceAll(s.Usage, "`", "")) // which stand for a value's name there
		if s.Kind == config.Bool {
			added.NoOptDefVal = "true"
		}
		flags = append(flags, f)
	}
	return flags
}

// given returns the flags that were given, as config wants them.
func (flags settingFlags) given() map[string]any {
	m := map[string]any{}
	for _, f := range flags {
		switch {
		case len(f.given) == 0:
		case f.setting.Kind == config.List:
			m[f.setting.Flag] = f.given
		default:
			m[f.setting.Flag] = f.given[0]
		}
	}
	return m
}
