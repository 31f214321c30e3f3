<?php
// A stand-in for a library that keeps its event loop in a static property, which is each request's own.
namespace Revolt;

final class EventLoop
{
    public static ?object $driver = null;
}
