//! Steps: what a scenario does with the runtime, one after another.

use std::sync::Arc;
use std::time::Duration;

use callweir::foreign::BoxFuture;
use callweir::{
    CloseOptions, EndOptions, Family, Invocation, ManualCall, ManualOptions, Mark, Outcome, Payload,
    Propagation, RegisterOptions, Registrable, Registration, Result, Scope, ScopeOptions, ScopeType,
    ToolCall, ToolContext, ToolRegistry,
};
use serde_json::{Value, json};

use super::behaviour::context;
use super::callbacks;
use super::format::{
    Action, Dispatched, Executed, Manual, MiddlewareSpec, Opened, Registered, Step, ToolSpec,
};
use super::world::{Broken, HostCancelled, HostError, World, known, shown};

/// Long enough for everything that a scenario queues.
const PATIENCE: Duration = Duration::from_secs(10);

impl World {
    /// Runs a step of the scenario; only a step with a label may fail.
    pub(super) fn step(self: Arc<Self>, step: Step) -> BoxFuture<Result<()>> {
        self.nested(step, false)
    }

    /// Runs a step from the top, or from a callback.
    pub(super) fn nested(self: Arc<Self>, step: Step, queued: bool) -> BoxFuture<Result<()>> {
        Box::pin(async move {
            let Step {
                label,
                inside,
                action,
            } = step;
            let act = self.clone().act(*action);
            let result = match inside {
                Some(scope) => self.scope(&scope)?.within(act).await,
                None => act.await,
            };
            let broken = result
                .as_ref()
                .err()
                .filter(|error| error.downcast_ref::<Broken>().is_some());
            match (label, broken) {
                (Some(label), None) => self.note_step(&label, &result, queued),
                _ => drop(result?),
            }
            Ok(())
        })
    }

    async fn act(self: Arc<Self>, action: Action) -> Result<Value> {
        match action {
            Action::Execute(asked) => self.execute(asked).await,
            Action::Dispatch(asked) => self.dispatch(asked).await,
            Action::Direct {
                registry,
                tool,
                arguments,
            } => {
                let key = format!("{registry} {tool}");
                let tool = known("tool", &key, self.things().tools.get(&key))?;
                tool.execute_with(arguments, ToolContext::new())
                    .await
                    .map(|value| shown(&value))
            }
            Action::Alone {
                name,
                arguments,
                middleware,
                next,
            } => {
                let call = ToolCall::new(name, arguments, ToolContext::new());
                let scripted = Arc::new(self.scripted(middleware));
                let next = callbacks::next_alone(&self, &next);
                callweir::Middleware::run(scripted, call, next)
                    .await
                    .map(|value| shown(&value))
            }
            Action::Guardrails { name, arguments } => {
                let (runtime, name) = (self.runtime.clone(), name.into());
                let asked =
                    callweir::conditional_execution(runtime, Scope::current(), name, arguments.into());
                asked.await.map(|()| Value::Null)
            }
            Action::Requests { name, arguments } => {
                let (runtime, name) = (self.runtime.clone(), name.into());
                let changed =
                    callweir::request_intercepts(runtime, Scope::current(), name, arguments.into()).await?;
                Ok(shown(&changed))
            }
            Action::UseNext { slot, arguments } => {
                let (next, call) = known("next", &slot, self.things().nexts.get(&slot))?;
                next.run(call.with_arguments(arguments))
                    .await
                    .map(|value| shown(&value))
            }
            Action::Flush {} => self.runtime.flush(Some(PATIENCE)).await.map(Value::from),
            Action::Shutdown {} => self.runtime.shutdown(PATIENCE).await.map(Value::from),
            other => self.act_now(other),
        }
    }

    /// The steps that never wait.
    fn act_now(self: &Arc<Self>, action: Action) -> Result<Value> {
        match action {
            Action::Register(entry) => self.register(&entry).map(|()| Value::Null),
            Action::Deregister { family, name, scope } => Ok(self
                .runtime
                .deregister(family.parse()?, &name, self.maybe_scope(scope)?.as_ref())
                .into()),
            Action::RemoveComponent { name } => Ok(self.runtime.remove_component(&name).into()),
            Action::Subscribe { name, scope, run } => {
                let target = callbacks::subscriber(self, &name, &run);
                self.runtime
                    .subscribe(&name, target, self.maybe_scope(scope)?.as_ref())
                    .map(|()| Value::Null)
            }
            Action::Unsubscribe { name, scope } => Ok(self
                .runtime
                .unsubscribe(&name, self.maybe_scope(scope)?.as_ref())
                .into()),
            Action::Fire { token } => {
                self.token(&token).cancel();
                Ok(Value::Null)
            }
            Action::Propagate { scope, r#as } => self.propagate(&scope, r#as),
            Action::Attach { r#as, from, value } => self.attach(r#as, from, value),
            Action::Counts {} => Ok(json!({ "failures": self.runtime.counts().failures })),
            other => self.act_on_scope(other),
        }
    }

    fn act_on_scope(self: &Arc<Self>, action: Action) -> Result<Value> {
        match action {
            Action::Open(opened) => self.open(opened),
            Action::Close {
                scope,
                output,
                metadata,
                outcome,
            } => {
                let outcome = outcome.map(|name| name.parse()).transpose()?;
                self.scope(&scope)?.close(CloseOptions {
                    output,
                    metadata,
                    outcome,
                    ..CloseOptions::default()
                });
                Ok(Value::Null)
            }
            Action::Mark { name, data, metadata } => {
                let mark = Mark {
                    data,
                    metadata,
                    ..Mark::default()
                };
                self.runtime.mark(name, Scope::current().as_ref(), mark);
                Ok(Value::Null)
            }
            Action::Call(asked) => self.call(asked),
            Action::End {
                call,
                result,
                fail,
                outcome,
            } => {
                let call = known("call", &call, self.things().calls.get(&call))?;
                let outcome = outcome.map(|name| name.parse::<Outcome>()).transpose()?;
                let error = fail.map(|message| HostError(message).into());
                let result = result.map(Payload::from);
                call.end(EndOptions {
                    result,
                    error,
                    outcome,
                    ..EndOptions::default()
                })
                .map(|()| Value::Null)
            }
            other => self.act_on_registry(other),
        }
    }

    fn act_on_registry(self: &Arc<Self>, action: Action) -> Result<Value> {
        match action {
            Action::Registry {
                r#as,
                tools,
                registries,
                middleware,
            } => {
                let registry = ToolRegistry::with_runtime(self.runtime.clone());
                self.things().registries.insert(r#as.clone(), registry);
                self.add(&r#as, &tools, &registries)?;
                self.add_middleware(&r#as, middleware)
            }
            Action::Add {
                registry,
                tools,
                registries,
            } => self.add(&registry, &tools, &registries),
            Action::Use { registry, middleware } => self.add_middleware(&registry, middleware),
            Action::Subset {
                r#as,
                registry,
                names,
            } => {
                let subset = self
                    .registry(&registry)?
                    .subset(names.iter().map(String::as_str))?;
                self.things().registries.insert(r#as, subset);
                Ok(Value::Null)
            }
            Action::Manifest { registry, provider } => {
                let provider = provider.map(|name| name.parse()).transpose()?;
                self.registry(&registry)?.manifest(provider)
            }
            Action::Middleware { registry } => {
                let all = self.registry(&registry)?.middleware();
                Ok(all.iter().map(|one| Value::from(&*one.name())).collect())
            }
            Action::Explain {
                registry: Some(registry),
                tool: Some(tool),
                ..
            } => {
                let lines = self
                    .registry(&registry)?
                    .explain(&tool, Scope::current().as_ref())?;
                Ok(lines.iter().map(line).collect())
            }
            Action::Explain { kind, .. } => {
                let lines = self
                    .runtime
                    .explain(kind.as_deref().unwrap_or("tool"), Scope::current().as_ref())?;
                Ok(lines.iter().map(line).collect())
            }
            Action::Registrations {} => Ok(self.runtime.registrations_list().iter().map(line).collect()),
            other => Err(Broken(format!("no such step: {other:?}")).into()),
        }
    }

    fn maybe_scope(&self, name: Option<String>) -> Result<Option<Scope>> {
        name.map(|name| self.scope(&name)).transpose()
    }

    fn register(self: &Arc<Self>, entry: &Registered) -> Result<()> {
        let family: Family = entry.family.parse()?;
        let options = RegisterOptions {
            priority: entry.priority,
            scope: self.maybe_scope(entry.scope.clone())?,
            break_chain: entry.break_chain,
            component: entry.component.as_deref().map(Into::into),
        };
        let by = entry
            .component
            .as_ref()
            .map_or_else(|| entry.name.clone(), |owner| format!("{owner}/{}", entry.name));
        self.runtime.register(
            family,
            &entry.name,
            callbacks::handler(self, family, &by, &entry.run),
            &options,
        )
    }

    fn open(&self, opened: Opened) -> Result<Value> {
        let category: ScopeType = opened.r#type.parse()?;
        let options = ScopeOptions {
            input: opened.input,
            metadata: opened.metadata,
            attributes: opened.attributes.into_iter().map(Into::into).collect(),
            ..ScopeOptions::default()
        };
        let scope = self
            .runtime
            .open_scope(opened.name, category, Scope::current(), options)?;
        self.things().scopes.insert(opened.r#as, scope);
        Ok(Value::Null)
    }

    async fn execute(self: Arc<Self>, asked: Executed) -> Result<Value> {
        let work = callbacks::function(&self, &asked.run);
        let mut call = Invocation::new(asked.name, asked.arguments, work);
        call.parent = Scope::current();
        call.metadata = asked.metadata;
        call.tool_call_id = asked.tool_call_id.map(Into::into);
        if let Some(token) = asked.token {
            call.context = call.context.with_cancellation(self.token(&token));
        }
        let running = call.execute(self.runtime.clone());
        self.dropped_on(asked.cancel_on, running)
            .await
            .map(|value| shown(&value))
    }

    async fn dispatch(self: Arc<Self>, asked: Dispatched) -> Result<Value> {
        let registry = self.registry(&asked.registry)?;
        let context = context(&self, ToolContext::new(), &asked.context);
        let arguments: callweir::Arguments = match asked.text {
            Some(text) => text.into(),
            None => asked.arguments.unwrap_or_else(|| json!({})).into(),
        };
        if asked.as_text {
            let running = registry.dispatch_json(&asked.tool, arguments, context);
            return self.dropped_on(asked.cancel_on, running).await.map(Value::from);
        }
        let running = registry.dispatch(&asked.tool, arguments, context);
        self.dropped_on(asked.cancel_on, running)
            .await
            .map(|value| shown(&value))
    }

    /// Runs a call until it ends, or drops it when the token fires: Rust's own way of cancelling.
    async fn dropped_on<T>(
        &self,
        token: Option<String>,
        running: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(token) = token else { return running.await };
        let token = self.token(&token);
        tokio::select! {
            biased;
            result = running => result,
            () = token.cancelled() => Err(HostCancelled.into()),
        }
    }

    fn call(&self, asked: Manual) -> Result<Value> {
        let options = ManualOptions {
            parent: Scope::current(),
            metadata: asked.metadata,
            tool_call_id: asked.tool_call_id.map(Into::into),
            ..ManualOptions::default()
        };
        let call = ManualCall::start(&self.runtime, asked.name.into(), &asked.arguments.into(), options)?;
        self.things()
            .scopes
            .insert(asked.r#as.clone(), call.scope().clone());
        self.things().calls.insert(asked.r#as, call);
        Ok(Value::Null)
    }

    fn propagate(&self, scope: &str, r#as: String) -> Result<Value> {
        let propagation = self.scope(scope)?.propagation();
        let mut value = propagation.to_json();
        let id = |uuid: &str| uuid.replace('-', "");
        let (uuid, root) = (
            id(&propagation.uuid.to_string()),
            id(&propagation.root.to_string()),
        );
        let right = format!("00-{root}-{}-01", uuid.get(16..).unwrap_or_default());
        if value.get("traceparent") == Some(&Value::from(right))
            && let Some(traceparent) = value.get_mut("traceparent")
        {
            *traceparent = Value::from("well-formed");
        }
        self.things().propagations.insert(r#as, propagation);
        Ok(value)
    }

    fn attach(&self, r#as: String, from: Option<String>, value: Option<Value>) -> Result<Value> {
        let value = match from {
            Some(from) => known("propagation", &from, self.things().propagations.get(&from))?.to_json(),
            None => value.unwrap_or(Value::Null),
        };
        let scope = self.runtime.attach(&Propagation::from_json(&value)?);
        self.things().scopes.insert(r#as, scope);
        Ok(Value::Null)
    }

    fn add(self: &Arc<Self>, registry: &str, tools: &[ToolSpec], registries: &[String]) -> Result<Value> {
        let made: Vec<_> = tools.iter().map(|spec| callbacks::tool(self, spec)).collect();
        let mut items: Vec<Registrable> = made.iter().cloned().map(Registrable::from).collect();
        for name in registries {
            items.push(self.registry(name)?.into());
        }
        self.registry(registry)?.register_all(items)?;
        for (spec, tool) in tools.iter().zip(made) {
            self.things()
                .tools
                .insert(format!("{registry} {}", spec.name), tool);
        }
        Ok(Value::Null)
    }

    fn add_middleware(self: &Arc<Self>, registry: &str, middleware: Vec<MiddlewareSpec>) -> Result<Value> {
        let registry = self.registry(registry)?;
        for spec in middleware {
            registry.use_middleware(self.scripted(spec));
        }
        Ok(Value::Null)
    }

    fn scripted(self: &Arc<Self>, spec: MiddlewareSpec) -> callbacks::Scripted {
        callbacks::Scripted {
            world: self.clone(),
            spec,
        }
    }
}

fn line(registration: &Registration) -> Value {
    json!({
        "stage": registration.stage, "name": &*registration.name, "level": registration.level,
        "owner": registration.owner.as_deref(), "priority": registration.priority,
    })
}
