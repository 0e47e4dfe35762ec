package v1alpha1

// ConditionReady is present on every ModelProvider and AgentSession once the controllers have seen it. True is good: the
// object can be used. A session that is not Ready accepts runs and lets them wait.
const ConditionReady = "Ready"
