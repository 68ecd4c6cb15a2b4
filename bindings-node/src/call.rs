//! Calls: their contexts in both directions, and what a `next` runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use callweir::foreign::HostToken;
use callweir::{CancellationToken, Error, Next, Result, Scope, ToolCall, ToolContext};

use crate::drive::{Driven, Task, launch};
use crate::instance::{Instance, Lent, Local};
use crate::js::{NOTHING, Raw};
use crate::native::{Arguments, wrong};
use crate::value::{Default, NO_PLACE, Object, Slot, held};

/// What a `next` runs: the rest of a chain, and the call as its callback got it.
pub(crate) struct Proceed {
    next: Next,
    call: ToolCall,
    default: Default,
}

impl Proceed {
    pub(crate) fn new(next: Next, call: ToolCall, default: &Default) -> Self {
        Self {
            next,
            call,
            default: default.clone(),
        }
    }
}

/// Runs the rest of a chain from inside a callback; the shared numbers are object, frame, arguments.
///
/// Without arguments the call goes on as the callback got it.
pub(crate) fn proceed(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    go_on(instance, given, |_| Ok(None))
}

/// Like [`proceed`], with another context: `(caller id, metadata, signal, deadline)`.
pub(crate) fn proceed_with(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    go_on(instance, given, |given| context_of(given, 0).map(Some))
}

type Changed = Option<(ToolContext, Option<Token>)>;

fn go_on(
    instance: &Arc<Instance>,
    given: &Arguments<'_>,
    context: impl FnOnce(&Arguments<'_>) -> Result<Changed>,
) -> Result<Raw> {
    let local = instance.here()?;
    let object = given.given_slot(local, 0).ok_or_else(|| wrong(0, "a place"))?;
    let frame_id = Arguments::given_id(local, 1);
    let arguments = given.given_slot(local, 2);
    let mut task = Task::new(object, Some(frame_id));
    let (next, mut call, default) = {
        let mut frames = local.frames.borrow_mut();
        let frame = frames.get_mut(frame_id);
        let Some((frame, proceed)) = frame.and_then(|frame| {
            let proceed = frame.proceed.as_ref()?;
            let parts = (
                proceed.next.clone(),
                proceed.call.clone(),
                proceed.default.clone(),
            );
            Some((frame, parts))
        }) else {
            drop(frames);
            return crate::drive::fail(instance, local, &Error::expired());
        };
        frame.add_task(task.id());
        proceed
    };
    if let Some(arguments) = arguments {
        call = call.with_arguments(Object::payload(arguments, &default));
    }
    if let Some((context, token)) = context(given)? {
        task.token = token;
        call = call.with_context(context);
    }
    launch(instance, task, || Ok(Driven::Rest(next.run(call))))
}

/// What the signal of a task fires: first the object, at the end of the turn the token.
pub(crate) type Token = (CancellationToken, Arc<HostToken>);

/// Reads a context given as `(caller id, metadata, signal, deadline)` from `first` on, and the token that its
/// signal fires.
pub(crate) fn context_of(given: &Arguments<'_>, first: usize) -> Result<(ToolContext, Option<Token>)> {
    let mut context = ToolContext::new();
    if let Some(caller_id) = given.text_or_none(first) {
        context = context.with_caller_id(caller_id);
    }
    if let Some(metadata) = given.slot_or_none(first + 1) {
        context = context.with_metadata(Object::payload(metadata, &Default::default()));
    }
    let mut token = None;
    if let Some(signal) = given.slot_or_none(first + 2) {
        let (made, source) = (CancellationToken::new(), Arc::new(HostToken::new(signal)));
        context = context.with_cancellation_of(made.clone(), source.clone());
        token = Some((made, source));
    }
    if let Some(deadline) = given.number_or_none(first + 3) {
        context = context.with_deadline(deadline_of(deadline)?);
    }
    Ok((context, token))
}

/// Reads a deadline in milliseconds from now.
fn deadline_of(milliseconds: f64) -> Result<Instant> {
    let now = Instant::now();
    if milliseconds.is_nan() {
        let text = "a deadline is a number of milliseconds from now";
        return Err(Error::invalid_argument("$.deadline", text));
    }
    if milliseconds <= 0.0 {
        return Ok(now.checked_sub(Duration::from_nanos(1)).unwrap_or(now));
    }
    Ok(now + duration(milliseconds))
}

/// Returns a duration of milliseconds; one beyond what a clock can say is as good as for ever.
pub(crate) fn duration(milliseconds: f64) -> Duration {
    const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 10);
    Duration::try_from_secs_f64(milliseconds / 1000.0)
        .unwrap_or(FAR)
        .min(FAR)
}

/// Puts a context into the table as JavaScript's own object; nothing for an empty one.
pub(crate) fn context_place(
    instance: &Arc<Instance>,
    local: &Local,
    context: &ToolContext,
) -> Result<Option<Slot>> {
    let (caller_id, deadline) = (context.caller_id(), context.deadline());
    let source = context.cancellation_source();
    if caller_id.is_none() && deadline.is_none() && source.is_none() && context.metadata().is_none() {
        return Ok(None);
    }
    let metadata = context
        .metadata()
        .map(|metadata| held(instance, local, metadata))
        .transpose()?;
    let signal = source.and_then(|source| source.object().downcast_ref::<Slot>());
    let left = deadline.map_or(local.js.undefined(), |deadline| local.js.number(until(deadline)));
    let arguments = [
        caller_id.map_or(local.js.undefined(), |id| local.js.text(id)),
        local
            .js
            .number(metadata.map_or(NO_PLACE, |metadata| metadata.place())),
        local.js.number(signal.map_or(NO_PLACE, Slot::place)),
        left,
    ];
    let place = local.call_for_number(Lent::Context, &arguments)?;
    Ok(Slot::take(instance, place))
}

/// Returns the milliseconds until a point in time, less than 0 when it has passed.
fn until(deadline: Instant) -> f64 {
    let now = Instant::now();
    match deadline.checked_duration_since(now) {
        Some(left) => left.as_secs_f64() * 1000.0,
        None => now.duration_since(deadline).as_secs_f64() * -1000.0,
    }
}

/// Keeps the scope of a task's call for what JavaScript starts inside it.
///
/// JavaScript makes the task itself the current place of its callbacks, so that nothing has to be undone.
pub(crate) struct TaskScope {
    pub(crate) instance: Arc<Instance>,
    pub(crate) task: u64,
}

impl callweir::foreign::Current for TaskScope {
    fn enter(&mut self, scope: &Scope) {
        if let Some(local) = self.instance.local()
            && let Some(task) = local.tasks.borrow_mut().get_mut(self.task)
        {
            task.scope = Some(scope.clone());
        }
    }
    fn leave(&mut self) {}
}

/// Says that a task's signal has fired, and with `release` lets go of who awaits it: `(task, release)`.
pub(crate) fn cancel(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let task = given.id(0)?;
    let token = local
        .tasks
        .borrow_mut()
        .get_mut(task)
        .and_then(|task| task.token.clone());
    if let Some((token, source)) = token {
        source.fire();
        if given.flag(1) {
            token.cancel();
        }
    }
    Ok(NOTHING)
}
