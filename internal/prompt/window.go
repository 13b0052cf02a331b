package prompt

// charactersPerToken is what a token id counts as in a window measured in
// characters: about four characters a token is the usual ratio of English text.
const charactersPerToken = 4

// addPrompt adds the text fields of the body in prompt order.
func (w *window) addPrompt(b *Body) {
	switch b.shape {
	case ShapeChat:
		w.addMessages(b.field(0))
	case ShapeCompletion:
		w.addCompletion(b.field(0))
	case ShapeResponses:
		w.addContent(b.field(0))
		w.addInput(b.field(1))
	case ShapeAnthropic:
		w.addContent(b.field(0))
		w.addMessages(b.field(1))
	}
}

// each adds the elements of an array while the window has room. What lies beyond
// the window is not even skipped.
func (w *window) each(array value, add func(value)) {
	if w.full() {
		return
	}
	for element := range array.elements() {
		if add(element); w.full() {
			return
		}
	}
}

// addMessages adds the contents of chat messages. Roles, names and tool calls
// are not part of SageMaker's key; but where there is nothing else, tool calls
// keep unrelated chats apart.
func (w *window) addMessages(messages value) {
	if !messages.isArray() {
		w.addOdd(messages)
		return
	}
	w.addEach(messages)
	if !w.prompted {
		w.each(messages, w.addToolCalls)
	}
}

// addEach adds messages while the window has room. It finds each one's content and its end in the same pass: long contents are not
// skipped twice.
func (w *window) addEach(messages value) {
	for i := next(messages, 1); messages[i] != ']' && !w.full(); i = nextItem(messages, i) {
		if messages[i] != '{' {
			end := skip(messages, i)
			w.addDigest(tagOdd, messages[i:end])
			i = end
			continue
		}
		var content value
		i = messages.object(i, func(key, val value) bool {
			if key.is("content") {
				content = val
			}
			return true
		})
		w.addContent(content)
	}
}

func (w *window) addToolCalls(message value) {
	if calls := message.member("tool_calls"); !calls.isNull() {
		w.addDigest(tagToolCalls, calls)
	}
}

// addInput adds the input of a Responses body: a string, or items of which those
// with a role are messages and the others are parts of their own.
func (w *window) addInput(input value) {
	if !input.isArray() {
		w.addContent(input)
		return
	}
	w.each(input, w.addItem)
}

func (w *window) addItem(item value) {
	if item.isObject() && item.member("role") != nil {
		w.addContent(item.member("content"))
	} else {
		w.addPart(item)
	}
}

// addContent adds a message's content: a string or a list of parts.
func (w *window) addContent(content value) {
	switch {
	case content.isString():
		w.addText(content)
	case content.isArray():
		w.each(content, w.addPart)
	default:
		w.addOdd(content)
	}
}

// addPart adds one part of a content. Whatever is not text (images, audio,
// documents, tool results) stands in the window as one character: the digest of
// its bytes, so that two images differ and neither fills the window.
func (w *window) addPart(part value) {
	if part.isString() { // vLLM takes bare strings among the parts
		w.addText(part)
		return
	}
	if !part.isObject() {
		w.addDigest(tagOdd, part)
		return
	}
	var kind, text value
	for key, val := range part.members() {
		switch {
		case key.is("type"):
			kind = val
		case key.is("text"):
			text = val
		}
	}
	if text.isString() && (kind.is("text") || kind.is("input_text") || kind.is("output_text")) {
		w.addText(text)
		return
	}
	w.addDigest(tagPart, part)
}

// addCompletion adds the prompt of a completion.
func (w *window) addCompletion(prompt value) {
	if !prompt.isArray() {
		w.addContent(prompt)
		return
	}
	w.each(prompt, w.addElement)
}

// addElement adds one element of a prompt array: a text or a list of token ids of
// a batch, or a token id of the only prompt.
func (w *window) addElement(element value) {
	switch {
	case element.isString():
		w.addText(element)
	case element.isArray():
		w.addTokens(element)
	default:
		w.addToken(element)
	}
}

// addTokens adds one list of token ids of a batch, marked where it begins.
func (w *window) addTokens(list value) {
	if !list.isEmpty() {
		w.mark(tagList)
		w.each(list, w.addToken)
	}
}

// addToken adds a token id; what is none goes in as its digest.
func (w *window) addToken(element value) {
	if id, ok := integer(element); ok {
		w.addID(id)
		return
	}
	w.addDigest(tagOdd, element)
}

// addOdd adds a value of a form that no API describes; the engine will decide
// on it, here it only must not look like another. Null and absent add nothing.
func (w *window) addOdd(v value) {
	if !v.isNull() {
		w.addDigest(tagOdd, v)
	}
}

// integer is the value of a JSON number without fraction or exponent, if it fits.
func integer(number value) (n int64, ok bool) {
	digits := number
	negative := number[0] == '-'
	if negative {
		digits = number[1:]
	}
	if len(digits) > len("9223372036854775807") {
		return 0, false
	}
	var magnitude uint64 // 19 digits cannot overflow it
	for _, c := range digits {
		if !isDigit(c) {
			return 0, false
		}
		magnitude = magnitude*10 + uint64(c-'0')
	}
	if negative {
		return -int64(magnitude), magnitude <= 1<<63
	}
	return int64(magnitude), magnitude < 1<<63
}
