package workload

import (
	"fmt"
	"iter"
)

// Agents are programs that work on tasks with tools. All sessions of one kind of agent open with the same tools and the same long
// system prompt; each goes on with a task of its own and grows by a step and its result a turn. Results come back as user messages,
// as of agents that write their calls as text, since engines differ in how they lay out calls.
type Agents struct {
	Shape
	Kinds        int // of agents, each with its own tools and system prompt
	Tools        int // that a kind can call
	ToolTokens   int // length of a tool's description
	SystemTokens int // length of a system prompt
	Sessions     int // held side by side
	Waves        int // how many follow each other in each place; 0 = 1
	Turns        int // requests of each session
	TaskTokens   int // length of a task
	ResultTokens int // length of what a tool answers
}

// Len is the number of requests.
func (w Agents) Len() int { return w.Sessions * max(1, w.Waves) * w.Turns }

// Requests gives the requests in order of time. Sessions take turns as conversations do in MultiTurn.
func (w Agents) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		next := arrivals(random(w.Seed, streamArrivalsAgents, 0), w.Rate)
		kinds := make([]agent, w.Kinds)
		for i := range kinds {
			kinds[i] = w.agent(i)
		}
		for session, turn := range takeTurns(w.Sessions, w.Waves, w.Turns) {
			r := w.request(kinds[session%w.Kinds], session, turn)
			r.At = next()
			if !yield(r) {
				return
			}
		}
	}
}

// agent is what all sessions of a kind share.
type agent struct {
	system message
	tools  []tool
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Parameters  parameters `json:"parameters"`
}

type parameters struct {
	Type       string              `json:"type"`
	Properties map[string]struct{} `json:"properties"`
}

func (w Agents) agent(kind int) agent {
	a := agent{system: message{"system", prose(random(w.Seed, streamInstructions, kind), w.SystemTokens)}}
	for i := range w.Tools {
		a.tools = append(a.tools, tool{"function", function{
			Name:        fmt.Sprintf("tool_%d_%d", kind, i),
			Description: prose(random(w.Seed, streamTools, kind*w.Tools+i), w.ToolTokens),
			Parameters:  parameters{"object", map[string]struct{}{}},
		}})
	}
	return a
}

func (w Agents) request(a agent, session, turn int) Request {
	messages := []message{a.system, {"user", prose(random(w.Seed, streamTask, session), w.TaskTokens)}}
	for t := 1; t <= turn; t++ {
		item := session*w.Turns + t
		messages = append(messages,
			message{"assistant", prose(random(w.Seed, streamStep, item), w.AnswerTokens)},
			message{"user", prose(random(w.Seed, streamResult, item), w.ResultTokens)})
	}
	return Request{
		Path:  chatPath,
		Group: fmt.Sprintf("session-%d", session),
		Body:  marshal(toolChat{w.chat(messages), a.tools, "none"}),

		PromptTokens: w.Tools*w.ToolTokens + w.SystemTokens + w.TaskTokens + turn*(w.AnswerTokens+w.ResultTokens),
		OutputTokens: w.AnswerTokens,
	}
}

// toolChat is a chat request with tools. Its answers are text ("none"): an engine without a parser for calls refuses anything else.
type toolChat struct {
	chat
	Tools  []tool `json:"tools"`
	Choice string `json:"tool_choice"`
}
