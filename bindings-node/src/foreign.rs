//! Callbacks: the core's traits over JavaScript functions.

use std::any::Any;
use std::sync::{Arc, Weak};

use callweir::foreign::{
    AnyMiddleware, Around, Context, Gate, Home, Observe, ObserveCalls, Origin, Subject, Transform,
    Transformed, Work,
};
use callweir::{
    CallEvent, Error, Event, Family, Handler, Next, Payload, Result, Shape, Step, ToolCall, Verdict,
};

use crate::call::{Proceed, context_place};
use crate::drive::{Frame, Leaf};
use crate::host::captured;
use crate::instance::{Instance, Lent, Local, Shared};
use crate::value::{Default, Held, NO_PLACE, Object, Slot, held};

/// How a callback answered; `ts/engine.ts` has the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// With a value.
    Value,
    /// With `undefined` or `null`.
    Nothing,
    /// With a text.
    Text,
    /// With an error of Callweir's own.
    Own,
    /// It threw.
    Thrown,
    /// It threw the reason of a signal that has fired.
    Aborted,
    /// Later.
    Pending,
}

impl How {
    /// Returns how a callback answered, from JavaScript's number for it.
    pub(crate) fn of(number: f64) -> Self {
        const ALL: [How; 7] = [
            How::Value,
            How::Nothing,
            How::Text,
            How::Own,
            How::Thrown,
            How::Aborted,
            How::Pending,
        ];
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small, and not negative"
        )]
        ALL.get(number as usize).copied().unwrap_or(How::Value)
    }
}

/// What a callback answered.
pub(crate) struct Answer {
    pub(crate) how: How,
    pub(crate) slot: Slot,
}

/// Reads what a callback answered.
type Read<T> = fn(&Callback, &Local, Answer) -> Result<T>;

/// What a callback of a call is called for; `ts/native.ts` has the same list.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Gate,
    Transform,
    Around,
    Middleware,
    Refused,
    Work,
    Tool,
}

/// A callback of a call that JavaScript is to call.
pub(crate) struct Action {
    kind: Kind,
    /// The function, the frame, the value, and what else the kind has.
    numbers: [f64; 5],
    /// What those places refer to, until JavaScript has looked.
    #[allow(dead_code, reason = "held for its drop")]
    kept: [Option<Slot>; 2],
}

impl Action {
    /// Tells JavaScript what to call.
    pub(crate) fn tell(&self, local: &Local) {
        local.set(Shared::Kind, self.kind as i32);
        self.numbers
            .iter()
            .enumerate()
            .for_each(|(index, number)| local.give(index, *number));
    }
}

/// A registered function, and what it is called for.
pub(crate) struct Callback {
    /// The function; nothing for the work of a call, which JavaScript keeps with the call.
    function: Option<Slot>,
    instance: Arc<Instance>,
    stage: &'static str,
    name: Arc<str>,
    default: Default,
    /// Itself, for what outlives the call of the function.
    me: Weak<Self>,
}

impl Callback {
    pub(crate) fn new(
        instance: &Arc<Instance>,
        function: Option<Slot>,
        stage: &'static str,
        name: Arc<str>,
        default: &Default,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            function,
            instance: instance.clone(),
            stage,
            name,
            default: default.clone(),
            me: me.clone(),
        })
    }

    fn wrong(&self, message: &str) -> Error {
        Error::invalid_return(self.stage, &self.name, message)
    }

    fn payload(&self, answer: Answer) -> Payload {
        Object::payload(answer.slot, &self.default)
    }

    fn function(&self) -> f64 {
        self.function.as_ref().map_or(NO_PLACE, Slot::place)
    }

    /// Has the function called inside the present task, with `value` and what `rest` refers to.
    ///
    /// With `proceed` it may run the rest of the chain from the moment that it is called.
    fn ask<T: Send + 'static>(
        &self,
        local: &Local,
        kind: Kind,
        value: &Payload,
        rest: [Option<Slot>; 2],
        proceed: Option<Proceed>,
        read: Read<T>,
    ) -> Result<Step<T>> {
        let (place, kept) = match held(&self.instance, local, value)? {
            Held::Own(slot) => (slot.place(), Some(value.clone())),
            Held::Made(slot) => {
                let place = slot.place();
                (place, Some(Object::payload(slot, &self.default)))
            }
        };
        let frame = local.frames.borrow_mut().insert(Frame::new(local, proceed, kept));
        let place_of = |slot: &Option<Slot>| slot.as_ref().map_or(NO_PLACE, Slot::place);
        let [first, second] = &rest;
        #[allow(clippy::cast_precision_loss, reason = "ids stay below 2^53")]
        let numbers = [
            self.function(),
            frame as f64,
            place,
            place_of(first),
            place_of(second),
        ];
        let action = Action {
            kind,
            numbers,
            kept: rest,
        };
        match local.tasks.borrow_mut().get_mut(local.current.get()) {
            Some(task) => task.actions.push_back(action),
            None => return Err(Error::internal("a callback was called outside its task")),
        }
        self.later(frame, read)
    }

    /// Calls the function at once, for the dispatcher; `rest` comes after the function and the frame.
    fn call<T: Send + 'static, const N: usize>(
        &self,
        local: &Local,
        lent: Lent,
        rest: [f64; N],
        shown: &str,
        read: Read<T>,
    ) -> Result<Step<T>> {
        let frame = local.frames.borrow_mut().insert(Frame::new(local, None, None));
        let shown = [local.js.text(shown)];
        local.give(0, self.function());
        #[allow(clippy::cast_precision_loss, reason = "ids stay below 2^53")]
        local.give(1, frame as f64);
        rest.iter()
            .enumerate()
            .for_each(|(index, number)| local.give(index + 2, *number));
        let called = local.call(lent, &shown).is_some();
        let how = How::of(f64::from(local.get(Shared::How)));
        if called && how == How::Pending {
            return self.later(frame, read);
        }
        let slot = Slot::take(&self.instance, local.given(0)).filter(|_| called);
        let over = local.frames.borrow_mut().remove(frame);
        drop(over);
        let slot = slot.ok_or_else(crate::error::unable)?;
        Ok(Step::Ready(self.read(local, Answer { how, slot }, read)))
    }

    fn later<T: Send + 'static>(&self, frame: u64, read: Read<T>) -> Result<Step<T>> {
        let leaf = Leaf::new(&self.instance, frame);
        // Held while it runs: a callback that is removed meanwhile answers all the same.
        let me = self.me.upgrade().ok_or_else(Error::cancelled)?;
        Ok(Step::later(async move {
            let answer = leaf.await?;
            me.read(me.instance.here()?, answer, read)
        }))
    }

    fn read<T>(&self, local: &Local, answer: Answer, read: Read<T>) -> Result<T> {
        match answer.how {
            How::Thrown => Err(crate::error::from_thrown(local, answer.slot)),
            How::Aborted => Err(crate::error::from_aborted(answer.slot)),
            _ => read(self, local, answer),
        }
    }

    fn here(&self) -> Result<&Local> {
        self.instance.here()
    }
}

/// Fails a step where the environment has ended.
fn settled<T>(step: Result<Step<T>>) -> Step<T> {
    step.unwrap_or_else(|error| Step::Ready(Err(error)))
}

/// Makes the handler of a family from a function.
pub(crate) fn handler(family: Family, callback: Arc<Callback>) -> Handler {
    match family.shape() {
        Shape::Gate => Handler::Gate(Arc::new(NodeGate(callback))),
        Shape::Transform => Handler::Transform(Arc::new(NodeTransform(callback))),
        Shape::Around | Shape::Stream => Handler::Around(Arc::new(NodeAround(callback))),
    }
}

struct NodeGate(Arc<Callback>);

impl Gate for NodeGate {
    fn check(&self, call: &ToolCall) -> Step<Verdict> {
        settled(self.0.here().and_then(|local| {
            let arguments = call.arguments();
            self.0
                .ask(local, Kind::Gate, arguments, [None, None], None, read_verdict)
        }))
    }
    fn is_host(&self) -> bool {
        true
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape of a reader")]
fn read_verdict(callback: &Callback, local: &Local, answer: Answer) -> Result<Verdict> {
    let place = [local.js.number(answer.slot.place())];
    match answer.how {
        How::Nothing => Ok(Verdict::Allow),
        How::Text => {
            let reason = local.call_for_text(Lent::TextOf, &place);
            reason.map(Verdict::reject).ok_or_else(crate::error::unable)
        }
        _ => match local.call_for_text(Lent::Verdict, &place) {
            Some(text) => {
                let rejected: Option<String> = serde_json::from_str(&text).unwrap_or_default();
                Ok(rejected.map_or(Verdict::Allow, Verdict::reject))
            }
            None => Err(callback.wrong("expected nothing, a reason or a Verdict")),
        },
    }
}

struct NodeTransform(Arc<Callback>);

impl Transform for NodeTransform {
    fn apply(&self, subject: &Subject<'_>, payload: Payload, context: &Context) -> Step<Transformed> {
        settled(self.0.here().and_then(|local| match subject {
            Subject::Call(_) if context.is_none() => self.0.ask(
                local,
                Kind::Transform,
                &payload,
                [None, None],
                None,
                read_payload,
            ),
            Subject::Call(name) => {
                let value = held(&self.0.instance, local, &payload)?;
                let rest = [value.place(), captured(context)];
                self.0.call(local, Lent::Sanitize, rest, name, read_payload)
            }
            Subject::Event(event) => {
                let value = held(&self.0.instance, local, &payload)?;
                let rest = [value.place(), captured(context)];
                let shown = crate::events::text(event);
                self.0
                    .call(local, Lent::SanitizeEvent, rest, &shown, read_payload)
            }
        }))
    }
    fn is_host(&self) -> bool {
        true
    }
    fn home(&self) -> Home {
        Home::Loop
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a reader")]
fn read_payload(callback: &Callback, _: &Local, answer: Answer) -> Result<Transformed> {
    Ok(match answer.how {
        How::Nothing => None,
        _ => Some(callback.payload(answer)),
    })
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a reader")]
fn read_any(callback: &Callback, _: &Local, answer: Answer) -> Result<Payload> {
    Ok(callback.payload(answer))
}

/// Reads what a middleware returned: a denial that is returned counts as thrown.
fn read_result(callback: &Callback, local: &Local, answer: Answer) -> Result<Payload> {
    match answer.how {
        How::Own if crate::error::is_denial(local, &answer.slot) => {
            Err(crate::error::from_thrown(local, answer.slot))
        }
        _ => Ok(callback.payload(answer)),
    }
}

#[allow(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "the shape of a reader"
)]
fn read_nothing(_: &Callback, _: &Local, _: Answer) -> Result<()> {
    Ok(())
}

struct NodeAround(Arc<Callback>);

impl Around for NodeAround {
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        settled(self.0.here().and_then(|local| {
            let arguments = call.arguments().clone();
            let proceed = Proceed::new(next, call, &self.0.default);
            self.0.ask(
                local,
                Kind::Around,
                &arguments,
                [None, None],
                Some(proceed),
                read_any,
            )
        }))
    }
    fn is_host(&self) -> bool {
        true
    }
}

/// The function that the program gave to a managed call; JavaScript has it at hand.
impl Work for Callback {
    fn run(&self, call: ToolCall) -> Step<Payload> {
        settled(self.here().and_then(|local| {
            let arguments = call.into_arguments();
            self.ask(local, Kind::Work, &arguments, [None, None], None, read_any)
        }))
    }
}

/// A function or object as a registry's middleware.
pub(crate) struct NodeMiddleware {
    run: Arc<Callback>,
    on_refused: Option<Arc<Callback>>,
}

impl NodeMiddleware {
    pub(crate) fn new(
        instance: &Arc<Instance>,
        name: &str,
        run: Slot,
        on_refused: Option<Slot>,
        default: &Default,
    ) -> Self {
        let make = |function| Callback::new(instance, Some(function), "middleware", name.into(), default);
        Self {
            run: make(run),
            on_refused: on_refused.map(make),
        }
    }
}

impl AnyMiddleware for NodeMiddleware {
    fn name(&self) -> Arc<str> {
        self.run.name.clone()
    }
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        settled(self.run.here().and_then(|local| {
            let context = context_place(&self.run.instance, local, call.context())?;
            let arguments = call.arguments().clone();
            let proceed = Proceed::new(next, call, &self.run.default);
            let (kind, rest) = (Kind::Middleware, [context, None]);
            self.run
                .ask(local, kind, &arguments, rest, Some(proceed), read_result)
        }))
    }
    fn on_refused(&self, call: &ToolCall, refusal: &Error) -> Step<()> {
        let Some(hook) = &self.on_refused else {
            return Step::Ready(Ok(()));
        };
        settled(hook.here().and_then(|local| {
            let context = context_place(&hook.instance, local, call.context())?;
            let refusal = crate::error::thrown_slot(&hook.instance, local, refusal)?;
            let rest = [context, Some(refusal)];
            hook.ask(local, Kind::Refused, call.arguments(), rest, None, read_nothing)
        }))
    }
    fn is_host(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A function as a subscriber of events.
pub(crate) struct NodeObserver(pub(crate) Arc<Callback>);

impl Observe for NodeObserver {
    fn observe(&self, event: &Arc<Event>, origin: &Origin) -> Step<()> {
        settled(self.0.here().and_then(|local| {
            let (rest, shown) = ([captured(&origin.context)], crate::events::text(event));
            self.0.call(local, Lent::Observe, rest, &shown, read_nothing)
        }))
    }
    fn home(&self) -> Home {
        Home::Loop
    }
}

/// A function as a subscriber of typed call records.
pub(crate) struct NodeCallObserver(pub(crate) Arc<Callback>);

impl ObserveCalls for NodeCallObserver {
    fn observe(&self, event: &CallEvent, origin: &Origin) -> Step<()> {
        settled(self.0.here().and_then(|local| {
            let (rest, shown) = ([captured(&origin.context)], crate::events::record(event));
            self.0.call(local, Lent::ObserveCall, rest, &shown, read_nothing)
        }))
    }
    fn home(&self) -> Home {
        Home::Loop
    }
}

/// A tool whose function is JavaScript's.
pub(crate) struct NodeTool {
    descriptor: Arc<callweir::Descriptor>,
    callback: Arc<Callback>,
}

impl NodeTool {
    pub(crate) fn new(
        instance: &Arc<Instance>,
        descriptor: Arc<callweir::Descriptor>,
        function: Slot,
        default: &Default,
    ) -> Self {
        let callback = Callback::new(instance, Some(function), "tool", descriptor.name.clone(), default);
        Self { descriptor, callback }
    }
}

impl callweir::Tool for NodeTool {
    fn descriptor(&self) -> &Arc<callweir::Descriptor> {
        &self.descriptor
    }

    fn run(&self, call: ToolCall) -> Step<Payload> {
        settled(self.callback.here().and_then(|local| {
            let context = context_place(&self.callback.instance, local, call.context())?;
            let arguments = call.into_arguments();
            self.callback
                .ask(local, Kind::Tool, &arguments, [context, None], None, read_any)
        }))
    }
}
