package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/budget/o200k"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/test/bench/corpus"
)

const (
	// verdictRequests are judged in each simulation, after warmUp others from which the calibration learns.
	verdictRequests = 600
	warmUp          = 5
	// perMessage is what a provider adds to each message, in tokens.
	perMessage = 4
)

// measureVerdicts lets conversations grow from the corpus and asks before each request whether it fits. A verdict is
// contradicted when the request was allowed although its counted tokens and the reserved answer exceed the window.
func measureVerdicts(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	texts, err := countedCorpus(ctx, c.load.root)
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for _, estimator := range []budget.Estimator{budget.Heuristic, budget.Scan} {
		for _, window := range []int64{32_000, 200_000} {
			for _, calibrated := range []bool{false, true} {
				s := newSimulation(texts, estimator, window, calibrated)
				wrong, err := s.run(ctx)
				if err != nil {
					return nil, err
				}
				name := fmt.Sprintf("%s, window %d", estimator.Name(), window)
				if calibrated {
					name += ", calibrated"
				}
				say("%s: %d contradicted", name, wrong)
				f := figure("verdicts", name, fmt.Sprintf("of %d contradicted", verdictRequests), float64(wrong))
				if estimator == budget.Scan && calibrated {
					f = f.atMost(0)
				}
				figures = append(figures, f)
			}
		}
	}
	return figures, nil
}

// countedText is a text of the corpus with its tokens by the o200k vocabulary.
type countedText struct {
	text   string
	tokens int64
}

func countedCorpus(ctx context.Context, root string) ([]countedText, error) {
	samples, err := corpus.Load(ctx, root)
	if err != nil {
		return nil, err
	}
	counter := o200k.New()
	texts := make([]countedText, len(samples))
	for i, sample := range samples {
		texts[i] = countedText{sample.Text, counter.Text(sample.Text)}
	}
	return texts, nil
}

// simulation is a series of conversations with one model. The same arguments give the same series.
type simulation struct {
	texts       []countedText
	random      *rand.Rand
	options     budget.Options
	calibration budget.Calibration
	calibrated  bool

	// messages is the conversation, counted the tokens of each message, and theme where its texts stand in the corpus.
	messages []message.Message
	counted  []int64
	theme    int
}

func newSimulation(texts []countedText, estimator budget.Estimator, window int64, calibrated bool) *simulation {
	return &simulation{
		texts: texts, random: rand.New(rand.NewPCG(5, uint64(window))), calibrated: calibrated,
		options: budget.Options{Estimator: estimator, Model: provider.Model{
			Provider: "p", API: provider.APIOpenAIChat, ID: "m", ContextWindow: window, MaxTokens: 4096}},
	}
}

// run returns how many verdicts were contradicted.
func (s *simulation) run(ctx context.Context) (wrong int, err error) {
	for sent := 0; sent < warmUp+verdictRequests; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		s.say()
		opt := s.options
		if s.calibrated {
			opt.Calibration = &s.calibration
		}
		b, err := budget.Measure(budget.Request{Messages: s.messages}, opt, nil)
		if err != nil {
			return 0, err
		}
		if !b.Allowed() {
			s.shorten()
			continue
		}
		total := int64(0)
		for _, n := range s.counted {
			total += n
		}
		if sent++; sent > warmUp && total+b.ReservedOutputTokens > b.ContextWindow {
			wrong++
		}
		s.calibration = s.calibration.Observe(b, &message.Usage{Input: &total})
	}
	return wrong, nil
}

// say adds a text, mostly one of the conversation's own kind.
func (s *simulation) say() {
	if len(s.messages) == 0 {
		s.theme = s.random.IntN(len(s.texts))
	}
	at := s.theme + s.random.IntN(40)
	if s.random.IntN(4) == 0 {
		at = s.random.IntN(len(s.texts))
	}
	text := s.texts[at%len(s.texts)]
	s.messages = append(s.messages, message.Message{Role: message.RoleUser, Content: message.Text(text.text)})
	s.counted = append(s.counted, text.tokens+perMessage)
}

// shorten keeps the newest quarter of the conversation, or begins another one.
func (s *simulation) shorten() {
	gone := len(s.messages) - len(s.messages)/4
	if s.random.IntN(3) == 0 {
		gone = len(s.messages)
	}
	s.messages, s.counted = slices.Clone(s.messages[gone:]), slices.Clone(s.counted[gone:])
}
